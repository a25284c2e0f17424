// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// A token with ERC-20 and nothing else: no EIP-3009, no EIP-2612. Anyone may mint.
contract PlainToken {
    string public constant name = "Plain";
    string public constant symbol = "PLN";
    uint8 public constant decimals = 6;

    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    function mint(address to, uint256 amount) external returns (bool) {
        balanceOf[to] += amount;
        emit Transfer(address(0), to, amount);
        return true;
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        emit Approval(msg.sender, spender, amount);
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        _move(msg.sender, to, amount);
        return true;
    }

    function transferFrom(address from, address to, uint256 amount) public virtual returns (bool) {
        allowance[from][msg.sender] -= amount;
        _move(from, to, amount);
        return true;
    }

    function _move(address from, address to, uint256 amount) private {
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        emit Transfer(from, to, amount);
    }
}

/// Keeps a tenth of what Permit2 moves.
contract FeeToken is PlainToken {
    function transferFrom(address from, address to, uint256 amount) public override returns (bool) {
        if (msg.sender != 0x000000000022D473030F116dDEE9F6B43aC78BA3) return super.transferFrom(from, to, amount);
        super.transferFrom(from, address(this), amount / 10);
        return super.transferFrom(from, to, amount - amount / 10);
    }
}
