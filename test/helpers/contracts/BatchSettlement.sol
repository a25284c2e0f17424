// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

interface Token {
    function balanceOf(address account) external view returns (uint256);
    function transfer(address to, uint256 amount) external returns (bool);
    function receiveWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes memory signature
    ) external;
}

interface Collector {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external;
}

struct Config {
    address payer;
    address payerAuthorizer;
    address receiver;
    address receiverAuthorizer;
    address token;
    uint40 withdrawDelay;
    bytes32 salt;
}

struct Voucher {
    Config channel;
    uint128 maxClaimableAmount;
}

struct Claim {
    Voucher voucher;
    bytes signature;
    uint128 totalClaimed;
}

/// The interface and the rules of x402's contract for payment channels, for accounts with keys alone. It has no constructor,
/// so that its code can be put at any address.
contract BatchSettlement {
    struct Channel { uint128 balance; uint128 totalClaimed; }
    struct Withdrawal { uint128 amount; uint40 initiatedAt; }
    struct Receiver { uint128 totalClaimed; uint128 totalSettled; }

    event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
    event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed);
    event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
    event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
    event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
    event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);

    bytes32 private constant CONFIG = keccak256(
        "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)"
    );
    bytes32 private constant VOUCHER = keccak256("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
    bytes32 private constant REFUND = keccak256("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
    bytes32 private constant ENTRY =
        keccak256("ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)");
    bytes32 private constant BATCH = keccak256(
        "ClaimBatch(ClaimEntry[] claims)ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)"
    );
    /// Half of the order of secp256k1: a signature with a larger s is another spelling of one with a smaller s.
    uint256 private constant MAX_S = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    mapping(bytes32 => Channel) public channels;
    mapping(bytes32 => uint256) public refundNonce;
    mapping(bytes32 => Withdrawal) public pendingWithdrawals;
    mapping(address => mapping(address => Receiver)) public receivers;

    function multicall(bytes[] calldata data) external returns (bytes[] memory results) {
        results = new bytes[](data.length);
        for (uint256 i = 0; i < data.length; i++) {
            (bool ok, bytes memory result) = address(this).delegatecall(data[i]);
            if (!ok) assembly { revert(add(result, 32), mload(result)) }
            results[i] = result;
        }
    }

    function deposit(Config calldata config, uint128 amount, address collector, bytes calldata data) external {
        require(config.payer != address(0) && config.receiver != address(0), "no account");
        require(config.receiverAuthorizer != address(0) && config.token != address(0), "no authorizer or token");
        require(config.withdrawDelay >= 15 minutes && config.withdrawDelay <= 30 days, "delay out of range");
        require(amount > 0, "no amount");
        bytes32 id = getChannelId(config);
        uint128 balance = channels[id].balance += amount;
        uint256 before = Token(config.token).balanceOf(address(this));
        Collector(collector).collect(config.payer, config.token, amount, id, data);
        require(Token(config.token).balanceOf(address(this)) == before + amount, "not collected");
        emit Deposited(id, msg.sender, amount, balance);
    }

    function claim(Claim[] calldata claims) external {
        require(claims.length > 0, "no claim");
        for (uint256 i = 0; i < claims.length; i++) {
            Config calldata config = claims[i].voucher.channel;
            require(msg.sender == config.receiver || msg.sender == config.receiverAuthorizer, "not the receiver");
            take(claims[i]);
        }
    }

    function claimWithSignature(Claim[] calldata claims, bytes calldata signature) external {
        require(claims.length > 0, "no claim");
        address authorizer = claims[0].voucher.channel.receiverAuthorizer;
        requireSigned(getClaimBatchDigest(claims), signature, authorizer);
        for (uint256 i = 0; i < claims.length; i++) {
            require(claims[i].voucher.channel.receiverAuthorizer == authorizer, "another authorizer");
            take(claims[i]);
        }
    }

    function settle(address receiver, address token) external {
        Receiver storage sums = receivers[receiver][token];
        uint128 amount = sums.totalClaimed - sums.totalSettled;
        if (amount == 0) return;
        sums.totalSettled = sums.totalClaimed;
        require(Token(token).transfer(receiver, amount), "not transferred");
        emit Settled(receiver, token, msg.sender, amount);
    }

    function initiateWithdraw(Config calldata config, uint128 amount) external {
        requirePayer(config);
        bytes32 id = getChannelId(config);
        require(pendingWithdrawals[id].initiatedAt == 0, "withdrawal pending");
        require(amount > 0 && amount <= unclaimed(id), "amount out of range");
        pendingWithdrawals[id] = Withdrawal(amount, uint40(block.timestamp));
        emit WithdrawInitiated(id, amount, uint40(block.timestamp) + config.withdrawDelay);
    }

    function finalizeWithdraw(Config calldata config) external {
        requirePayer(config);
        bytes32 id = getChannelId(config);
        Withdrawal memory pending = pendingWithdrawals[id];
        require(pending.initiatedAt != 0, "no withdrawal pending");
        require(block.timestamp >= uint256(pending.initiatedAt) + config.withdrawDelay, "too early");
        delete pendingWithdrawals[id];
        uint128 amount = least(pending.amount, unclaimed(id));
        channels[id].balance -= amount;
        emit WithdrawFinalized(id, msg.sender, amount);
        pay(config, amount);
    }

    function refund(Config calldata config, uint128 amount) external {
        require(msg.sender == config.receiver || msg.sender == config.receiverAuthorizer, "not the receiver");
        giveBack(config, amount);
    }

    function refundWithSignature(Config calldata config, uint128 amount, uint256 nonce, bytes calldata signature) external {
        bytes32 id = getChannelId(config);
        require(nonce == refundNonce[id], "another nonce");
        requireSigned(getRefundDigest(id, nonce, amount), signature, config.receiverAuthorizer);
        giveBack(config, amount);
    }

    function getChannelId(Config calldata config) public view returns (bytes32) {
        return typed(keccak256(abi.encode(CONFIG, config)));
    }

    function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount) public view returns (bytes32) {
        return typed(keccak256(abi.encode(VOUCHER, channelId, maxClaimableAmount)));
    }

    function getRefundDigest(bytes32 channelId, uint256 nonce, uint128 amount) public view returns (bytes32) {
        return typed(keccak256(abi.encode(REFUND, channelId, nonce, amount)));
    }

    function getClaimBatchDigest(Claim[] calldata claims) public view returns (bytes32) {
        bytes32[] memory entries = new bytes32[](claims.length);
        for (uint256 i = 0; i < claims.length; i++) {
            Voucher calldata voucher = claims[i].voucher;
            bytes32 id = getChannelId(voucher.channel);
            entries[i] = keccak256(abi.encode(ENTRY, id, voucher.maxClaimableAmount, claims[i].totalClaimed));
        }
        return typed(keccak256(abi.encode(BATCH, keccak256(abi.encodePacked(entries)))));
    }

    function take(Claim calldata claimed) private {
        Config calldata config = claimed.voucher.channel;
        bytes32 id = getChannelId(config);
        Channel storage channel = channels[id];
        // A claim of what was claimed before changes nothing.
        if (claimed.totalClaimed <= channel.totalClaimed) return;
        require(claimed.totalClaimed <= claimed.voucher.maxClaimableAmount, "above the voucher");
        require(claimed.totalClaimed <= channel.balance, "above the balance");
        requireSigned(getVoucherDigest(id, claimed.voucher.maxClaimableAmount), claimed.signature, config.payerAuthorizer);
        uint128 amount = claimed.totalClaimed - channel.totalClaimed;
        channel.totalClaimed = claimed.totalClaimed;
        receivers[config.receiver][config.token].totalClaimed += amount;
        emit Claimed(id, msg.sender, amount, claimed.totalClaimed);
    }

    function giveBack(Config calldata config, uint128 asked) private {
        require(asked > 0, "no amount");
        bytes32 id = getChannelId(config);
        refundNonce[id]++;
        uint128 amount = least(asked, unclaimed(id));
        if (amount == 0) return;
        channels[id].balance -= amount;
        Withdrawal storage pending = pendingWithdrawals[id];
        if (amount >= pending.amount) delete pendingWithdrawals[id];
        else pending.amount -= amount;
        emit Refunded(id, msg.sender, amount);
        pay(config, amount);
    }

    function pay(Config calldata config, uint128 amount) private {
        if (amount > 0) require(Token(config.token).transfer(config.payer, amount), "not transferred");
    }

    function unclaimed(bytes32 id) private view returns (uint128) {
        return channels[id].balance - channels[id].totalClaimed;
    }

    function least(uint128 one, uint128 other) private pure returns (uint128) {
        return one < other ? one : other;
    }

    function requirePayer(Config calldata config) private view {
        require(msg.sender == config.payer || msg.sender == config.payerAuthorizer, "not the payer");
    }

    function requireSigned(bytes32 digest, bytes calldata signature, address signer) private pure {
        require(signature.length == 65, "signature of another length");
        require(uint256(bytes32(signature[32:64])) <= MAX_S, "signature with a high s");
        address recovered =
            ecrecover(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
        require(recovered != address(0) && recovered == signer, "not signed");
    }

    function typed(bytes32 structHash) private view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("x402 Batch Settlement"),
                keccak256("1"),
                block.chainid,
                address(this)
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }
}

/// Collects a deposit by EIP-3009, for the contract at the address of x402's contract for channels.
contract Erc3009DepositCollector {
    address private constant CHANNELS = 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003;

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external {
        require(msg.sender == CHANNELS, "not the contract for channels");
        (uint256 validAfter, uint256 validBefore, uint256 salt, bytes memory signature) =
            abi.decode(data, (uint256, uint256, uint256, bytes));
        bytes32 nonce = keccak256(abi.encode(channelId, salt));
        Token(token).receiveWithAuthorization(payer, address(this), amount, validAfter, validBefore, nonce, signature);
        require(Token(token).transfer(CHANNELS, amount), "not transferred");
    }
}

interface Permit2 {
    struct TokenPermissions { address token; uint256 amount; }
    struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
    struct SignatureTransferDetails { address to; uint256 requestedAmount; }

    function permitWitnessTransferFrom(
        PermitTransferFrom memory permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}

interface TokenWithPermit {
    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s) external;
}

/// Collects a deposit by Permit2, whose approval the payer has given before, or signed for (EIP-2612).
contract Permit2DepositCollector {
    address private constant CHANNELS = 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003;
    Permit2 private constant PERMIT2 = Permit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external {
        require(msg.sender == CHANNELS, "not the contract for channels");
        (uint256 nonce, uint256 deadline, bytes memory signature, bytes memory approval) =
            abi.decode(data, (uint256, uint256, bytes, bytes));
        if (approval.length > 0) approve(payer, token, amount, approval);
        PERMIT2.permitWitnessTransferFrom(
            Permit2.PermitTransferFrom(Permit2.TokenPermissions(token, amount), nonce, deadline),
            Permit2.SignatureTransferDetails(CHANNELS, amount),
            payer,
            keccak256(abi.encode(keccak256("DepositWitness(bytes32 channelId)"), channelId)),
            "DepositWitness witness)DepositWitness(bytes32 channelId)TokenPermissions(address token,uint256 amount)",
            signature
        );
    }

    /// The transfer shows whether the token has taken the approval.
    function approve(address payer, address token, uint256 amount, bytes memory approval) private {
        (uint256 value, uint256 end, uint8 v, bytes32 r, bytes32 s) =
            abi.decode(approval, (uint256, uint256, uint8, bytes32, bytes32));
        require(value == amount, "another amount");
        try TokenWithPermit(token).permit(payer, address(PERMIT2), value, end, v, r, s) {} catch {}
    }
}
