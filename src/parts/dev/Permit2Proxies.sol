// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

interface IPermit2 {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    function permitWitnessTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}

interface IERC20Permit {
    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external;
}

/// Parts that the proxies of both schemes have in common. Functions, errors and events are those of the official proxies.
abstract contract Permit2Proxy {
    IPermit2 public constant PERMIT2 = IPermit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);

    struct EIP2612Permit {
        uint256 value;
        uint256 deadline;
        bytes32 r;
        bytes32 s;
        uint8 v;
    }

    event Settled();
    event SettledWithPermit();
    event EIP2612PermitFailedWithData(address indexed token, address indexed owner, bytes data);

    error InvalidAmount();
    error InvalidDestination();
    error InvalidOwner();
    error PaymentTooEarly();
    error Permit2612AmountMismatch();

    function approvePermit2(
        EIP2612Permit calldata permit2612,
        IPermit2.PermitTransferFrom calldata permit,
        address owner
    ) internal {
        if (permit2612.value != permit.permitted.amount) revert Permit2612AmountMismatch();
        address token = permit.permitted.token;
        // The permit may have been used already; the transfer fails if Permit2 is not approved.
        try IERC20Permit(token).permit(
            owner,
            address(PERMIT2),
            permit2612.value,
            permit2612.deadline,
            permit2612.v,
            permit2612.r,
            permit2612.s
        ) {} catch (bytes memory data) {
            emit EIP2612PermitFailedWithData(token, owner, data);
        }
    }

    function requireValid(uint256 amount, address owner, address to, uint256 validAfter) internal view {
        if (amount == 0) revert InvalidAmount();
        if (owner == address(0)) revert InvalidOwner();
        if (to == address(0)) revert InvalidDestination();
        if (block.timestamp < validAfter) revert PaymentTooEarly();
    }
}

/// The proxy through which x402 settles Permit2 payments of the scheme exact: it pays the full amount to the receiver that
/// the payer signed.
contract ExactPermit2Proxy is Permit2Proxy {
    bytes32 public constant WITNESS_TYPEHASH = keccak256("Witness(address to,uint256 validAfter)");
    string public constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,uint256 validAfter)";

    struct Witness {
        address to;
        uint256 validAfter;
    }

    error ReentrancyGuardReentrantCall();

    bool private entered;

    modifier nonReentrant() {
        if (entered) revert ReentrancyGuardReentrantCall();
        entered = true;
        _;
        entered = false;
    }

    function settle(
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external nonReentrant {
        pay(permit, owner, witness, signature);
        emit Settled();
    }

    function settleWithPermit(
        EIP2612Permit calldata permit2612,
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external nonReentrant {
        approvePermit2(permit2612, permit, owner);
        pay(permit, owner, witness, signature);
        emit SettledWithPermit();
    }

    function pay(
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) private {
        uint256 amount = permit.permitted.amount;
        requireValid(amount, owner, witness.to, witness.validAfter);
        PERMIT2.permitWitnessTransferFrom(
            permit,
            IPermit2.SignatureTransferDetails(witness.to, amount),
            owner,
            keccak256(abi.encode(WITNESS_TYPEHASH, witness.to, witness.validAfter)),
            WITNESS_TYPE_STRING,
            signature
        );
    }
}

/// The proxy through which x402 settles Permit2 payments of the scheme upto: it pays any amount up to the signed amount to
/// the receiver that the payer signed, and only for the facilitator that the payer signed.
contract UptoPermit2Proxy is Permit2Proxy {
    bytes32 public constant WITNESS_TYPEHASH =
        keccak256("Witness(address to,address facilitator,uint256 validAfter)");
    string public constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,address facilitator,uint256 validAfter)";

    struct Witness {
        address to;
        address facilitator;
        uint256 validAfter;
    }

    error AmountExceedsPermitted();
    error UnauthorizedFacilitator();

    function settle(
        IPermit2.PermitTransferFrom calldata permit,
        uint256 amount,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external {
        pay(permit, amount, owner, witness, signature);
        emit Settled();
    }

    function settleWithPermit(
        EIP2612Permit calldata permit2612,
        IPermit2.PermitTransferFrom calldata permit,
        uint256 amount,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external {
        approvePermit2(permit2612, permit, owner);
        pay(permit, amount, owner, witness, signature);
        emit SettledWithPermit();
    }

    function pay(
        IPermit2.PermitTransferFrom calldata permit,
        uint256 amount,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) private {
        if (msg.sender != witness.facilitator) revert UnauthorizedFacilitator();
        if (amount > permit.permitted.amount) revert AmountExceedsPermitted();
        requireValid(amount, owner, witness.to, witness.validAfter);
        PERMIT2.permitWitnessTransferFrom(
            permit,
            IPermit2.SignatureTransferDetails(witness.to, amount),
            owner,
            keccak256(abi.encode(WITNESS_TYPEHASH, witness.to, witness.facilitator, witness.validAfter)),
            WITNESS_TYPE_STRING,
            signature
        );
    }
}
