// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// A smart account (ERC-1271) with one owner. It approves the owner's signature in 65 bytes, with anything in front of
/// them, and in 64 bytes (ERC-2098); and a hash that its owner has approved on the chain, with no signature. It returns
/// another value for another signer, and reverts on a signature of another length.
contract OwnedWallet {
    address private immutable owner;
    mapping(bytes32 => bool) private approved;

    constructor(address initialOwner) {
        owner = initialOwner;
    }

    function approve(bytes32 hash, bool isApproved) external {
        require(msg.sender == owner, "not the owner");
        approved[hash] = isApproved;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length == 0 && approved[hash]) return this.isValidSignature.selector;
        require(signature.length >= 64, "no signature");
        bytes calldata own = signature.length > 65 ? signature[signature.length - 65:] : signature;
        bytes32 s = bytes32(own[32:64]);
        uint8 v = 27;
        if (own.length == 65) v = uint8(own[64]);
        else {
            v += uint8(uint256(s) >> 255);
            s &= bytes32(type(uint256).max >> 1);
        }
        return ecrecover(hash, v, bytes32(own[0:32]), s) == owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// A smart account that uses up all gas when it is asked about a signature, or runs into an invalid instruction.
contract HostileWallet {
    bool private immutable burnsGas;

    constructor(bool burns) {
        burnsGas = burns;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        while (burnsGas) {}
        assembly {
            invalid()
        }
    }
}

/// Deploys a wallet for an owner at an address that is known before, and returns it if it is there already.
contract WalletFactory {
    mapping(address => address) private wallets;

    function deploy(address owner) external returns (address) {
        if (wallets[owner] == address(0)) wallets[owner] = address(new OwnedWallet{salt: 0}(owner));
        return wallets[owner];
    }
}

/// A smart account that redirects callers to its URL (EIP-3668).
contract OffchainWallet {
    error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callbackFunction, bytes extraData);

    string private url;

    constructor(string memory initialUrl) {
        url = initialUrl;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        string[] memory urls = new string[](1);
        urls[0] = url;
        revert OffchainLookup(address(this), urls, "", this.callback.selector, "");
    }

    function callback(bytes calldata, bytes calldata) external pure returns (bytes4) {
        return this.isValidSignature.selector;
    }
}

/// Answers every call with the same configured bytes.
contract Answers {
    bytes private answer;

    constructor(bytes memory initialAnswer) {
        answer = initialAnswer;
    }

    fallback(bytes calldata) external returns (bytes memory) {
        return answer;
    }
}
